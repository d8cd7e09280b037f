// Data that is shown as a table, and data that stays JSON.
import { expect, test } from 'vitest'
import { fieldsOf, isTextOf } from '@/components/data-table'

const DECISION = { options: ['A tent', 'A hall'], chosen: 'A hall', reasons: ['It rains.'], dissent: [{ member: 'ana', says: 'It is dear.' }] }

test('a decision has a row for each field, and one for each member against it', () => {
  const fields = fieldsOf(DECISION)!
  expect(fields.map((one) => one.name)).toEqual(['options', 'chosen', 'reasons', 'dissent'])
  expect(fields[0]!.texts).toEqual(['A tent', 'A hall'])
  expect(fields[3]!.heads).toEqual(['member', 'says'])
  expect(fields[3]!.rows).toEqual([['ana', 'It is dear.']])
})

test('a field without anything in it says so', () => {
  expect(fieldsOf({ a: null, b: '', c: [], d: 0, e: false })!.map((one) => one.texts)).toEqual([['–'], ['–'], ['–'], ['0'], ['false']])
})

test.each([
  ['a text', 'hello'],
  ['a list', [1, 2]],
  ['nothing', null],
  ['an empty object', {}],
  ['an object within an object', { a: { b: 1 } }],
  ['objects that are not alike', { a: [{ b: 1 }, { c: 1 }] }],
  ['lists within lists', { a: [[1], [2]] }],
  ['more items than a reader takes in', { a: Array.from({ length: 100 }, (_, n) => n) }],
  ['more fields than a reader takes in', Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`f${n}`, n]))],
  ['a long text', { a: 'x'.repeat(10_000) }],
])('%s stays JSON', (_, data) => {
  expect(fieldsOf(data)).toBeNull()
})

test('a text that is nothing but its data is known, in any order and within a fence', () => {
  const reversed = Object.fromEntries(Object.entries(DECISION).reverse())
  expect(isTextOf(JSON.stringify(reversed, null, 2), DECISION)).toBe(true)
  expect(isTextOf(`\`\`\`json\n${JSON.stringify(DECISION)}\n\`\`\``, DECISION)).toBe(true)
  expect(isTextOf(`We decided: ${JSON.stringify(DECISION)}`, DECISION)).toBe(false)
  expect(isTextOf('{"chosen": "A tent"}', DECISION)).toBe(false)
  expect(isTextOf('null', null)).toBe(false)
})
