// Browsers start no worker from a file, so that the search of the site would need a server. This one runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      frame.contentDocument.open();
      this.inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      frame.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.postMessage(data);
      };
      frame.contentDocument.write(`<script src="${new URL(url, location)}"><\/script>`);
      frame.contentDocument.close();
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.inner.onmessage({ data }));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
