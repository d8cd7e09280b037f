// Who the reader is. The address that the server prints carries a code, which is traded once for a cookie.
import { defineStore } from 'pinia'
import { computed, ref } from 'vue'
import { ApiError, api, onSignedOut } from '@/api/client'

export type Role = 'read' | 'answer' | 'run' | 'admin'
const ROLES: Role[] = ['read', 'answer', 'run', 'admin']

export interface Visitor {
  name: string
  role: Role
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
    }
  }

  async function trade(code: string): Promise<boolean> {
    try {
      await api.post('/api/session', { code })
      return true
    } catch {
      return false
    }
  }

  async function end(): Promise<void> {
    await api.delete('/api/session').catch(() => undefined)
    visitor.value = null
    state.value = 'signedOut'
  }

  return { visitor, state, codeRefused, may, hasCode, begin, end }
})
