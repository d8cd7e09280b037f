// Who the reader is. A token, or the code in the address that the server prints, is traded for a session.
import { defineStore } from 'pinia'
import { computed, ref } from 'vue'
import { ApiError, api, onSignedOut } from '@/api/client'
import { credential } from '@/api/credential'
import { named, t } from '@/i18n'

export type Role = 'read' | 'answer' | 'run' | 'admin'
/** Milliseconds after which a server that could not be reached is asked again. */
const AGAIN = 3000
const ROLES: Role[] = ['read', 'answer', 'run', 'admin']

export interface Visitor {
  name: string
  role: Role
}

/** A session as it begins; its secret is kept for the next requests, and nothing else. */
interface Begun extends Visitor {
  session: string
}

function keep({ session, ...visitor }: Begun): Visitor {
  credential.set(session)
  return visitor
}

export const useSession = defineStore('session', () => {
  const visitor = ref<Visitor | null>(null)
  const state = ref<'starting' | 'signedIn' | 'signedOut' | 'unreachable'>('starting')
  const codeRefused = ref(false)
  const rank = computed(() => (visitor.value ? ROLES.indexOf(visitor.value.role) : -1))
  const may = (role: Role) => rank.value >= ROLES.indexOf(role)

  onSignedOut(() => {
    visitor.value = null
    state.value = 'signedOut'
  })

  const hasCode = () => new URL(location.href).searchParams.has('code')

  async function begin(): Promise<void> {
    const address = new URL(location.href)
    const code = address.searchParams.get('code')
    if (code) {
      address.searchParams.delete('code')
      history.replaceState(null, '', address)
      codeRefused.value = !(await trade(code))
    }
    try {
      visitor.value = await api.get<Visitor>('/api/session')
      state.value = 'signedIn'
      codeRefused.value = false
    } catch (error) {
      state.value = error instanceof ApiError && error.status === 401 ? 'signedOut' : 'unreachable'
      if (state.value === 'unreachable') setTimeout(() => state.value === 'unreachable' && void begin(), AGAIN)
    }
  }

  async function trade(code: string): Promise<boolean> {
    try {
      keep(await api.post<Begun>('/api/session', { code }))
      return true
    } catch {
      return false
    }
  }

  /** Begin a session with a token; raises what the server says of it. The token is not kept. */
  async function signIn(token: string): Promise<void> {
    visitor.value = keep(await api.post<Begun>('/api/session', { token }))
    codeRefused.value = false
    state.value = 'signedIn'
  }

  /** Why the reader may not do what a role may; empty where they may. */
  const reason = (role: Role) => (visitor.value && !may(role) ? t('role.needs', { name: visitor.value.name, role: named('role', visitor.value.role), needed: named('role', role) }) : '')

  async function end(): Promise<void> {
    await api.delete('/api/session').catch(() => undefined)
    credential.clear()
    visitor.value = null
    state.value = 'signedOut'
  }

  return { visitor, state, codeRefused, may, reason, hasCode, begin, signIn, end }
})
