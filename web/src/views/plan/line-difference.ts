// The difference between two texts, line by line.

export interface Line {
  change: 'same' | 'added' | 'removed'
  text: string
}

const LARGEST = 4_000_000

/** The lines of both texts in order; what is the same stands once. Texts too large to compare are shown one after the other. */
export function lineDifference(before: string, after: string): Line[] {
  const [a, b] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const same = (text: string): Line => ({ change: 'same', text })
  return [
    ...a.slice(0, start).map(same),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ]
}

function middle(a: string[], b: string[]): Line[] {
  const [removed, added] = [(text: string): Line => ({ change: 'removed', text }), (text: string): Line => ({ change: 'added', text })]
  if (a.length * b.length > LARGEST) return [...a.map(removed), ...b.map(added)]
  const width = b.length + 1
  const longest = new Uint32Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] =
        a[i] === b[j] ? longest[(i + 1) * width + j + 1]! + 1 : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!)
  const lines: Line[] = []
  let [i, j] = [0, 0]
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ change: 'same', text: a[i++]! })
      j++
    } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) lines.push(removed(a[i++]!))
    else lines.push(added(b[j++]!))
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)]
}

/** The changed lines with a few around them; `null` marks what is left out. */
export function withContext(lines: readonly Line[], around = 2): (Line | null)[] {
  const shown = new Set<number>()
  lines.forEach((line, index) => {
    if (line.change !== 'same') for (let near = index - around; near <= index + around; near++) shown.add(near)
  })
  const result: (Line | null)[] = []
  lines.forEach((line, index) => {
    if (shown.has(index)) result.push(line)
    else if (result.length > 0 && result.at(-1) !== null) result.push(null)
  })
  return result.at(-1) === null ? result.slice(0, -1) : result
}
