// Amounts as people type them. A text that is no number stays as it is: to leave it out would drop a limit silently.

/** A number, nothing (''), or a text that can't be read as a number. */
export type Amount = number | string

/** What was typed, as a number if it is one in plain digits. */
export function amountOf(typed: string): Amount {
  const text = typed.trim()
  const value = Number(text)
  return /^[-+]?[\d.]+(?:e[-+]?\d+)?$/i.test(text) && Number.isFinite(value) ? value : text
}

/** Whether something was typed that is no number. */
export const isUnreadable = (amount: Amount | undefined) => typeof amount === 'string' && amount !== ''

/** The amounts that are numbers, by their names. */
export function readable<Name extends string>(amounts: Partial<Record<Name, Amount>>): Partial<Record<Name, number>> {
  return Object.fromEntries(Object.entries(amounts).filter(([, value]) => typeof value === 'number')) as Partial<Record<Name, number>>
}
