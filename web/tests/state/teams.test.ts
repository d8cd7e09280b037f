import { expect, test } from 'vitest'
import { completionsAt, parseLine, type Team } from '@/state/teams'

const teams: Team[] = [
  { id: 'review', description: 'reviews', members: [{ name: 'architect', description: '' }, { name: 'guard', description: '' }] },
  { id: 'broken', problem: 'no' },
]
const complete = (text: string, chosen = '') => completionsAt(text, text.length, teams, chosen).found.map((one) => one.name)

test('a line names its team', () => {
  expect(parseLine('@review look at\nthis')).toEqual({ team: 'review', task: 'look at\nthis' })
  expect(parseLine(' write a poem ')).toEqual({ team: '', task: 'write a poem' })
})

test('teams that can be started are completed at the beginning', () => {
  expect(complete('@')).toEqual(['review'])
  expect(complete('@rev')).toEqual(['review'])
  expect(complete('@x')).toEqual([])
})

test('members of the team are completed after it', () => {
  expect(complete('@review ask @')).toEqual(['architect', 'guard'])
  expect(complete('ask @gu', 'review')).toEqual(['guard'])
})

test('nothing is completed within a word or an address', () => {
  expect(complete('mail a@b')).toEqual([])
})
