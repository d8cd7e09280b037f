/** The lines of a patch as Git writes it, each with what it is. A line within a change is never taken for a header. */
export type DiffLine = { kind: 'file' | 'head' | 'hunk' | 'added' | 'removed' | 'same'; text: string }

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/

export function diffLines(patch: string): DiffLine[] {
  const found: DiffLine[] = []
  let before = 0
  let after = 0
  for (const text of patch.replace(/\n$/, '').split('\n')) {
    const hunk = before <= 0 && after <= 0 ? HUNK.exec(text) : null
    if (hunk) {
      before = Number(hunk[1] ?? 1)
      after = Number(hunk[2] ?? 1)
      found.push({ kind: 'hunk', text })
    } else if (before > 0 || after > 0) {
      const kind = text.startsWith('+') ? 'added' : text.startsWith('-') ? 'removed' : 'same'
      if (!text.startsWith('\\')) {
        before -= kind === 'added' ? 0 : 1
        after -= kind === 'removed' ? 0 : 1
      }
      found.push({ kind, text })
    } else {
      found.push({ kind: text.startsWith('diff --git ') ? 'file' : 'head', text })
    }
  }
  return found
}
