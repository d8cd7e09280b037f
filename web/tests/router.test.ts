import { expect, test } from 'vitest'
import { href, parseRoute } from '@/router'

test('an address and its route are inverse', () => {
  const route = parseRoute(href('runs', 'a/b ü', 'plan'))
  expect([route.page, ...route.parts]).toEqual(['runs', 'a/b ü', 'plan'])
})

test('an empty address is the first page', () => {
  expect(parseRoute('').page).toBe('')
  expect(parseRoute('#/').page).toBe('')
})

test('a mistyped escape does not break the page', () => {
  expect(parseRoute('#/runs/%E0%A4%A').parts).toEqual(['%E0%A4%A'])
})

test('a query stands after the path', () => {
  expect(parseRoute('#/new?team=a').query.get('team')).toBe('a')
})
