// What waits for a person, over all runs; read again every few seconds while somebody looks.
import { defineStore } from 'pinia'
import { ref, shallowRef } from 'vue'
import { api } from '@/api/client'

export interface InboxItem {
  run_id: string
  key: string
  team?: string
  [field: string]: unknown
}

const EVERY = 5000

export const useInbox = defineStore('inbox', () => {
  const items = shallowRef<InboxItem[]>([])
  const error = ref<unknown>(null)
  const isRead = ref(false)
  let timer: ReturnType<typeof setInterval> | undefined

  async function read(): Promise<void> {
    try {
      items.value = await api.get<InboxItem[]>('/api/inbox')
      error.value = null
    } catch (failure) {
      error.value = failure
    }
    isRead.value = true
  }

  function watch(): void {
    rest()
    void read()
    timer = setInterval(() => void read(), EVERY)
  }

  const rest = () => clearInterval(timer)
  return { items, error, isRead, read, watch, rest }
})
