import { afterEach, expect, test, vi } from 'vitest'
import { ApiError, api, isBeside, isUnreachable, problemOf } from '@/api/client'

afterEach(() => vi.unstubAllGlobals())

/** What the page makes of an answer of the server. */
async function refused(status: number, error: unknown): Promise<unknown> {
  vi.stubGlobal('fetch', async () => new Response(JSON.stringify({ error }), { status }))
  return api.post('/api/runs', {}).catch((failure: unknown) => failure)
}

test('a message about a field is found at the field and at what it is inside of', async () => {
  const error = await refused(422, { code: 'invalid', message: 'no', fields: { 'limits.tokens': 'too few', task: 'blank' } })
  expect([problemOf(error, 'limits.tokens'), problemOf(error, 'limits'), problemOf(error, 'limit'), problemOf(error, 'task')]).toEqual(['too few', 'too few', '', 'blank'])
  expect([isBeside(error, 'team', 'task'), isBeside(error, 'team'), isBeside(null, 'task')]).toEqual([true, false, false])
})

test('a request that is too large is about its files', async () => {
  const error = await refused(413, { code: 'too_large', message: 'the body is too large' })
  expect(problemOf(error, 'attachments')).toBe('the body is too large')
})

test('a server that does not answer is told from one that refuses', async () => {
  expect(isUnreachable(await refused(500, { code: 'internal', message: 'no' }))).toBe(false)
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('failed')))
  const error = await api.get('/api/teams').catch((failure: unknown) => failure)
  expect(error).toBeInstanceOf(ApiError)
  expect(isUnreachable(error)).toBe(true)
})
