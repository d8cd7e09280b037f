// Addresses after `#`, so that the page needs nothing of the server and works from a file:
//   #/              runs                 #/inbox           what waits for a person
//   #/new           start a run          #/runs/ID/VIEW    a view of a run
//   #/operations/PART   figures, evaluations, cluster, memory or experts
import { computed, ref } from 'vue'

export interface Route {
  page: string
  parts: string[]
  query: URLSearchParams
}

const hash = ref(location.hash)
addEventListener('hashchange', () => (hash.value = location.hash))

export function parseRoute(text: string): Route {
  const [path = '', query = ''] = text.replace(/^#\/?/, '').split('?')
  const [page = '', ...parts] = path.split('/').map(decode)
  return { page, parts, query: new URLSearchParams(query) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const route = computed(() => parseRoute(hash.value))

export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

/** Change the query of the address in place; an empty value is left out. */
export function setQuery(changes: Record<string, string>): void {
  const [path = ''] = hash.value.split('?')
  const query = new URLSearchParams(route.value.query)
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name)
  const text = query.toString()
  history.replaceState(null, '', `${path || '#/'}${text ? `?${text}` : ''}`)
  hash.value = location.hash
}

export function go(...parts: string[]): void {
  location.hash = href(...parts)
}
