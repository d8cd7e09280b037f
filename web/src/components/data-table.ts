// Data that reads better as a table than as JSON: an object of a few texts, lists, and lists of alike objects.

/** A field of the object: its texts, or the rows of a table with these heads. */
export interface Field {
  name: string
  texts: string[]
  heads: string[]
  rows: string[][]
}

const MOST_FIELDS = 12
const MOST_ITEMS = 30
const MOST_CHARACTERS = 4000

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
const isPlain = (value: unknown) => value === null || typeof value !== 'object'
const textOf = (value: unknown) => (value === null || value === '' ? '–' : String(value))

function fieldOf(name: string, value: unknown): Field | null {
  const none = { name, texts: [], heads: [], rows: [] }
  if (isPlain(value)) return { ...none, texts: [textOf(value)] }
  if (!Array.isArray(value) || value.length > MOST_ITEMS) return null
  if (value.every(isPlain)) return { ...none, texts: value.length ? value.map(textOf) : ['–'] }
  const heads = Object.keys(isObject(value[0]) ? value[0] : {})
  const isAlike = (one: unknown) => isObject(one) && Object.keys(one).join() === heads.join() && Object.values(one).every(isPlain)
  return value.every(isAlike) ? { ...none, heads, rows: value.map((one) => heads.map((head) => textOf((one as Record<string, unknown>)[head]))) } : null
}

/** The fields of a table for this data; `null` where JSON shows it better. */
export function fieldsOf(data: unknown): Field[] | null {
  if (!isObject(data) || JSON.stringify(data).length > MOST_CHARACTERS) return null
  const names = Object.keys(data)
  const fields = names.map((name) => fieldOf(name, data[name]))
  return names.length && names.length <= MOST_FIELDS && fields.every((one) => one !== null) ? fields : null
}

/** Whether a text is nothing but this data. */
export function isTextOf(text: string, data: unknown): boolean {
  if (!isObject(data)) return false
  try {
    return JSON.stringify(sorted(JSON.parse(text.replace(/^\s*```(?:json)?\s*|\s*```\s*$/g, '')))) === JSON.stringify(sorted(data))
  } catch {
    return false
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
}
