// What waits for a person, over all runs; read again every few seconds, and told to the reader where they asked for it.
import { defineStore } from 'pinia'
import { computed, ref, shallowRef } from 'vue'
import { api } from '@/api/client'
import { t } from '@/i18n'
import { href } from '@/router'
import type { Asked } from '@/state/answers'
import { recall, remember } from '@/state/preferences'

export interface InboxItem extends Asked {
  run_id: string
  team: string
  asked_at: string
  /** The answer is sent, and the run has not used it yet. */
  answered: boolean
  /** No process drives the run: it uses the answer once it is continued. */
  paused: boolean
}

const EVERY = 4000
const idOf = (item: InboxItem) => `${item.run_id} ${item.key}`

export const useInbox = defineStore('inbox', () => {
  const found = shallowRef<InboxItem[]>([])
  /** A question that is answered, and whose answer the run has not used yet. */
  const answered = (runId: string, key: string) => found.value.find((item) => item.answered && item.run_id === runId && item.key === key)
  const items = computed(() => found.value.filter((item) => !item.answered))
  const error = ref<unknown>(null)
  const isRead = ref(false)
  const canNotify = typeof Notification !== 'undefined'
  const wantsNotices = ref(recall('notify', ['yes', 'no'] as const) === 'yes')
  /** Asked of the browser where it is needed: the answer comes from another process, which would delay the first view. */
  const answer = ref<NotificationPermission | null>(null)
  const permission = computed(() => answer.value ?? (canNotify ? Notification.permission : 'denied'))
  const notifies = computed(() => wantsNotices.value && permission.value === 'granted')
  let told = new Set<string>()
  let timer: ReturnType<typeof setInterval> | undefined

  async function read(): Promise<void> {
    try {
      found.value = await api.get<InboxItem[]>('/api/inbox')
      error.value = null
      tell()
    } catch (failure) {
      error.value = failure
    }
    isRead.value = true
  }

  /** Notify of what is new, once; what was there when the page was opened is not new. */
  function tell(): void {
    const fresh = isRead.value && notifies.value ? items.value.filter((item) => !told.has(idOf(item))) : []
    told = new Set(items.value.map(idOf))
    for (const item of fresh) {
      const notice = new Notification(t('inbox.notification', { team: item.team }), { body: item.text.slice(0, 200), tag: idOf(item) })
      notice.onclick = () => {
        focus()
        location.hash = href('inbox')
        notice.close()
      }
    }
  }

  async function notify(): Promise<void> {
    if (!canNotify) return
    answer.value = await Notification.requestPermission()
    wantsNotices.value = answer.value === 'granted'
    remember('notify', wantsNotices.value ? 'yes' : 'no')
  }

  function watch(): void {
    rest()
    void read()
    timer = setInterval(() => void read(), EVERY)
  }

  const rest = () => clearInterval(timer)
  return { items, answered, error, isRead, permission, notifies, read, notify, watch, rest }
})
