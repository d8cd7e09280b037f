"""The server: runs over HTTP and sockets, for pages, scripts and OpenAI-compatible clients; the extra `server`."""
