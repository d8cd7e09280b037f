// The title of the window, by which readers tell tabs apart and screen readers announce a page.
import { t } from '@/i18n'

export const setTitle = (...parts: string[]) => (document.title = [...parts, t('app.name')].join(' · '))
