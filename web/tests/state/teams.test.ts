import { expect, test } from 'vitest'
import { completionsAt, parseLine, type Team } from '@/state/teams'

const teams: Team[] = [
  { id: 'review', description: 'reviews', members: [{ name: 'architect', description: '' }, { name: 'guard', description: '' }] },
  { id: 'broken', problem: 'no' },
]
const experts = [{ name: 'analyst' }, { name: 'editor' }]
const complete = (text: string, chosen = '', known: { name: string }[] = []) => completionsAt(text, text.length, teams, chosen, known).found.map((one) => one.name)

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

test('the word team forms a team of experts, of whom some may be named', () => {
  expect(parseLine('@team plan it', teams)).toEqual({ team: '', task: 'plan it', forms: [] })
  expect(parseLine('@team:analyst,editor plan it', teams)).toEqual({ team: '', task: 'plan it', forms: ['analyst', 'editor'] })
  expect(parseLine('@team：analyst，editor，analyst plan it', teams).forms).toEqual(['analyst', 'editor'])
  expect(parseLine('@team plan it', [...teams, { id: 'team' }])).toEqual({ team: 'team', task: 'plan it' })
})

test('experts are completed after the word that forms a team, where the server has some', () => {
  expect(complete('@te', '', experts)).toEqual(['team'])
  expect(complete('@te')).toEqual([])
  expect(complete('@team:', '', experts)).toEqual(['analyst', 'editor'])
  expect(complete('@team:analyst,ed', '', experts)).toEqual(['editor'])
})
