// What a reader chose, kept in this browser. Where storage is forbidden (a file opened from disk), nothing is kept.

const PREFIX = 'teamwright.'

export function recall<T extends string>(name: string, allowed: readonly T[]): T | null {
  try {
    const found = localStorage.getItem(PREFIX + name)
    return allowed.find((one) => one === found) ?? null
  } catch {
    return null
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value)
  } catch {
    // The choice holds until the page is closed.
  }
}
