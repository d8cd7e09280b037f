import { expect, test } from 'vitest'
import { readFilters, removeFilter, savedFilters, saveFilter } from '@/state/saved-filters'

test('a filter of the same name is replaced, and one can be removed', () => {
  saveFilter('mine', 'status=failed')
  saveFilter('late', 'order=-seconds')
  saveFilter('mine', 'status=paused')
  expect(savedFilters.value).toEqual([
    { name: 'mine', query: 'status=paused' },
    { name: 'late', query: 'order=-seconds' },
  ])
  removeFilter('mine')
  expect(savedFilters.value.map((one) => one.name)).toEqual(['late'])
})

test('what a browser has kept is not trusted', () => {
  for (const text of [null, 'nonsense', '{}', '[1, null, {"name": 2, "query": ""}]']) expect(readFilters(text)).toEqual([])
  expect(readFilters('[{"name": "a", "query": "q=b"}]')).toHaveLength(1)
})
