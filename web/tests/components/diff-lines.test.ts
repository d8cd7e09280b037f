import { expect, test } from 'vitest'
import { diffLines } from '@/components/diff-lines'

const PATCH = `base-commit: 1a2b

diff --git a/a.sql b/a.sql
index 1..2 100644
--- a/a.sql
+++ b/a.sql
@@ -1,2 +1,2 @@
--- a comment that goes
+++ a counter that comes
 same
\\ No newline at end of file
diff --git a/b b/b
new file mode 100644
`

test('each line of a patch is what it is, also where a change looks like a header', () => {
  expect(diffLines(PATCH).map((line) => line.kind)).toEqual([
    'head', 'head', 'file', 'head', 'head', 'head', 'hunk', 'removed', 'added', 'same', 'head', 'file', 'head',
  ])
  expect(diffLines('').map((line) => line.text)).toEqual([''])
})
