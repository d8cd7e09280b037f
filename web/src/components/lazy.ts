// Parts of the page that load when they are first shown. Where the server is away they say so, and come when it is back.
import { defineAsyncComponent, h, ref, type Component } from 'vue'
import { ApiError } from '@/api/client'
import ErrorNotice from '@/components/ErrorNotice.vue'
import { t } from '@/i18n'

const AGAIN = 2000
/** Style sheets that could not be loaded: a module that is imported again is loaded again, and its style sheet is not. */
const failed = new Set<HTMLLinkElement>()
addEventListener('error', ({ target }) => target instanceof HTMLLinkElement && target.rel === 'stylesheet' && failed.add(target), true)

function loadAgain(link: HTMLLinkElement): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = link.cloneNode() as HTMLLinkElement
    next.onload = () => resolve()
    next.onerror = () => reject(new Error(next.href))
    failed.delete(link)
    link.replaceWith(next)
  })
}

export function lazy<C extends Component>(load: () => Promise<{ default: C }>): C {
  const tryAgain = ref<(() => void) | null>(null)
  return defineAsyncComponent({
    loader: async () => {
      await Promise.all([...failed].map(loadAgain))
      return (await load()).default as Component
    },
    delay: 200,
    loadingComponent: () => (tryAgain.value ? h(ErrorNotice, { error: new ApiError(0, 'unreachable', ''), retry: tryAgain.value, class: 'away' }) : h('p', { class: 'muted waits', role: 'status' }, t('app.loading'))),
    onError(_, retry) {
      const timer = setTimeout(retry, AGAIN)
      tryAgain.value = () => {
        clearTimeout(timer)
        retry()
      }
    },
  }) as unknown as C
}
