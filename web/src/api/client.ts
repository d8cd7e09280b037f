// Requests to the server. Every failure is an `ApiError` with the server's code and message.

import { credential } from '@/api/credential'

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Messages about single fields of what was sent, by their paths. */
    readonly fields: Readonly<Record<string, string>> = {},
  ) {
    super(message)
    this.name = 'ApiError'
  }
}

/** Whether the server did not answer at all. */
export const isUnreachable = (error: unknown) => error instanceof ApiError && error.code === 'unreachable'

type Query = Record<string, string | number | boolean | undefined>

const listeners = new Set<() => void>()

/** Call `listener` whenever the server says that the session has ended. */
export function onSignedOut(listener: () => void): void {
  listeners.add(listener)
}

/** The path of a route with its query; what is undefined is left out. */
export function url(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text ? `${path}?${text}` : path
}

/** The path of a run's route, with the run's id escaped. */
export const runPath = (runId: string, rest = '') => `/api/runs/${encodeURIComponent(runId)}${rest}`

async function answer(method: string, path: string, body?: unknown): Promise<Response> {
  let response: Response
  try {
    response = await fetch(path, {
      method,
      credentials: 'omit',
      headers: { ...credential.headers(), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
    })
  } catch {
    throw new ApiError(0, 'unreachable', '')
  }
  if (response.ok) return response
  throw await errorOf(response)
}

async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await answer(method, path, body)
  return (response.status === 204 ? undefined : await response.json()) as T
}

async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string; fields?: Record<string, string> } }
  if (response.status === 401) listeners.forEach((listener) => listener())
  // Nothing but files makes a request too large; what reads it has stopped before it knows the fields.
  if (response.status === 413) body.error = { ...body.error, fields: { attachments: body.error?.message ?? response.statusText } }
  return new ApiError(response.status, body.error?.code ?? 'http', body.error?.message || response.statusText || `HTTP ${response.status}`, body.error?.fields)
}

/** What the server says about a field and about what is inside it; empty where it says nothing. */
export function problemOf(error: unknown, field: string): string {
  if (!(error instanceof ApiError)) return ''
  const found = Object.entries(error.fields).filter(([name]) => name === field || name.startsWith(`${field}.`))
  return found.map(([, text]) => text).join(' ')
}

/** Whether an error is about one of these fields, beside which it is shown. */
export const isBeside = (error: unknown, ...fields: string[]) => fields.some((field) => problemOf(error, field) !== '')

/** A page of a list, and where the next one begins; empty after the last. */
async function page<T>(path: string, query?: Query): Promise<{ items: T[]; next: string }> {
  const response = await answer('GET', url(path, query))
  return { items: (await response.json()) as T[], next: decodeURIComponent(response.headers.get('Teamwright-Next') ?? '') }
}

export const api = {
  page,
  get: <T>(path: string, query?: Query) => request<T>('GET', url(path, query)),
  post: <T>(path: string, body: unknown = {}) => request<T>('POST', path, body),
  put: <T>(path: string, body: unknown) => request<T>('PUT', path, body),
  blob: async (path: string) => (await answer('GET', path)).blob(),
  delete: <T>(path: string) => request<T>('DELETE', path),
}
