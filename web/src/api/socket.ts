// Follows a run by a socket. It connects again, later each time, one number before the last event that it delivered:
// a recorded event yields several page events, and the connection may end between them. The store drops what it has.
import { runPath, url } from '@/api/client'
import { credential } from '@/api/credential'
import type { PageItem } from '@/api/page_events'

/** What the server says about the connection itself. */
interface Signal {
  kind: 'end' | 'slow' | 'heartbeat'
}

export type Connection = 'connecting' | 'open' | 'lost' | 'ended' | 'refused'

export interface Follower {
  onItems(items: PageItem[]): void
  onConnection(state: Connection): void
}

const FIRST_WAIT = 500
const LONGEST_WAIT = 15_000
const GONE = new Set([1008, 4404])

export class RunSocket {
  private socket: WebSocket | null = null
  private timer: ReturnType<typeof setTimeout> | undefined
  private frame: ReturnType<typeof setTimeout> | undefined
  private pending: PageItem[] = []
  private wait = FIRST_WAIT
  private closed = false

  private after = 0

  constructor(
    private readonly runId: string,
    private readonly follower: Follower,
  ) {}

  /** Connect, after the event with this number. */
  open(after = this.after): void {
    this.after = after
    this.follower.onConnection('connecting')
    const address = new URL(url(runPath(this.runId, '/socket'), { after: Math.max(0, this.after - 1) }), location.href)
    address.protocol = address.protocol.replace('http', 'ws')
    this.socket = new WebSocket(address, credential.protocols())
    this.socket.onopen = () => {
      this.wait = FIRST_WAIT
      this.follower.onConnection('open')
    }
    this.socket.onmessage = (message) => this.receive(JSON.parse(String(message.data)) as PageItem | Signal)
    this.socket.onclose = (event) => this.lost(event.code)
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
    this.flush()
    this.socket?.close()
  }

  /** Connect again at once, where a person or the browser says that the network is back. */
  retry(): void {
    if (this.closed || this.socket?.readyState === WebSocket.OPEN) return
    clearTimeout(this.timer)
    this.open()
  }

  private receive(item: PageItem | Signal): void {
    if (item.kind === 'end') {
      this.closed = true
      this.flush()
      this.follower.onConnection('ended')
      return
    }
    if (item.kind === 'slow' || item.kind === 'heartbeat') return
    this.pending.push(item as PageItem)
    // One update of the page for all that arrives at once: a recorded run comes in thousands.
    this.frame ??= setTimeout(() => this.flush(), 30)
  }

  private flush(): void {
    clearTimeout(this.frame)
    this.frame = undefined
    if (this.pending.length === 0) return
    const items = this.pending
    this.pending = []
    for (const item of items) if ('number' in item) this.after = Math.max(this.after, item.number)
    this.follower.onItems(items)
  }

  private lost(code: number): void {
    this.flush()
    if (this.closed) return
    if (GONE.has(code)) {
      this.closed = true
      this.follower.onConnection('refused')
      return
    }
    this.follower.onConnection('lost')
    this.timer = setTimeout(() => this.open(), this.wait * (0.75 + Math.random() / 2))
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT)
  }
}
