// Colours code by what most languages share: comments, strings, numbers and common keywords. It knows no grammar.
const KEYWORDS =
  'and|as|async|await|break|case|catch|class|const|continue|def|default|del|elif|else|enum|except|export|extends|False|false|finally|fn|for|from|func|function|if|import|in|interface|is|let|match|mut|new|nil|None|not|null|or|package|pass|pub|raise|return|self|static|struct|super|switch|this|throw|True|true|try|type|use|var|while|with|yield|SELECT|FROM|WHERE|INSERT|UPDATE|DELETE|JOIN|CREATE|TABLE'
// Hostile code must not make it look at the rest again and again: an open comment ends with the code, a string is short.
const TOKEN = new RegExp(
  [
    String.raw`(?<c>\/\*[^]*?(?:\*\/|(?![^]))|(?:\/\/|(?<=^|\s)#(?!\[)).*)`,
    String.raw`(?<s>"(?:\\.|[^"\\\n]){0,300}"|'(?:\\.|[^'\\\n]){0,300}'|` + '`[^`]*`)',
    String.raw`(?<n>\b\d[\d_.]*(?:e[+-]?\d+)?\b)`,
    String.raw`(?<k>\b(?:${KEYWORDS})\b)`,
  ].join('|'),
  'gm',
)
/** Longer code is shown plainly: colours are not worth the wait. */
const LONGEST = 50_000

/** Code as HTML: everything is escaped, and tokens stand in a `span` whose class is their kind. */
export function highlight(code: string, escape: (text: string) => string): string {
  if (code.length > LONGEST) return escape(code)
  let [html, end] = ['', 0]
  for (const found of code.matchAll(TOKEN)) {
    const kind = Object.entries(found.groups ?? {}).find(([, text]) => text !== undefined)?.[0]
    html += `${escape(code.slice(end, found.index))}<span class="hl-${kind}">${escape(found[0])}</span>`
    end = found.index + found[0].length
  }
  return html + escape(code.slice(end))
}
