// Filters of the list of runs that a reader has named, kept in this browser.
import { ref } from 'vue'
import { recallText, remember } from '@/state/preferences'

export interface SavedFilter {
  name: string
  /** The query of the address of the list. */
  query: string
}

const MOST = 20

export function readFilters(text: string | null): SavedFilter[] {
  try {
    const found: unknown = JSON.parse(text ?? '[]')
    if (!Array.isArray(found)) return []
    return found.filter((one): one is SavedFilter => typeof one?.name === 'string' && typeof one?.query === 'string').slice(0, MOST)
  } catch {
    return []
  }
}

export const savedFilters = ref(readFilters(recallText('filters')))

function keep(filters: SavedFilter[]): void {
  savedFilters.value = filters.slice(0, MOST)
  remember('filters', JSON.stringify(savedFilters.value))
}

/** Save a filter under a name, in place of another one of that name. */
export const saveFilter = (name: string, query: string) => keep([{ name, query }, ...savedFilters.value.filter((one) => one.name !== name)])
export const removeFilter = (name: string) => keep(savedFilters.value.filter((one) => one.name !== name))
