// What the reader can do to a run, as requests to the server.
import { api, runPath } from '@/api/client'

/** How far an intervention has come; `inbox_id` is its number in the inbox and in the events of the run. */
export interface Receipt {
  inbox_id: number
  intervention: string
  status: 'sent' | 'accepted' | 'applied'
}

export interface Amounts {
  tokens?: number
  usd?: number
  calls?: number
  seconds?: number
}

export interface NewMember {
  model?: string
  instructions?: string
  description?: string
}

export function commands(runId: string) {
  const member = (name: string, rest = '') => runPath(runId, `/members/${encodeURIComponent(name)}${rest}`)
  return {
    say: (text: string, to: string) => api.post<Receipt>(runPath(runId, '/messages'), { text, to }),
    followUp: (task: string) => api.post<{ run_id: string }>(runPath(runId, '/turns'), { task }),
    hold: (name: string) => api.post<Receipt>(member(name, '/pause')),
    release: (name: string) => api.post<Receipt>(member(name, '/resume')),
    add: (name: string, spec: NewMember) => api.post<Receipt>(runPath(runId, '/members'), { name, spec }),
    remove: (name: string) => api.delete<Receipt>(member(name)),
    raise: (limits: Amounts) => api.post<Receipt>(runPath(runId, '/limits'), limits),
    pause: () => api.post<unknown>(runPath(runId, '/pause')),
    resume: () => api.post<unknown>(runPath(runId, '/resume')),
    stop: () => api.post<unknown>(runPath(runId, '/cancel')),
  }
}
