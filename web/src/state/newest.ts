// Answers come in any order: one that comes after something newer was asked for is old, and would write over it.

/** Call what is returned with each question; what that returns says whether nothing newer was asked for since. */
export function newest(): () => () => boolean {
  let asked = 0
  return () => {
    const mine = ++asked
    return () => mine === asked
  }
}
