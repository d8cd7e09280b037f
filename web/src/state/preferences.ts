// What a reader chose, kept in this browser. Where storage is forbidden (a file opened from disk), nothing is kept.

const PREFIX = 'teamwright.'

export function recallText(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

export function recall<T extends string>(name: string, allowed: readonly T[]): T | null {
  const found = recallText(name)
  return allowed.find((one) => one === found) ?? null
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value)
  } catch {
    // The choice holds until the page is closed.
  }
}
