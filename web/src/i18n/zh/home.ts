import type { home as english } from '@/i18n/en/home'

export const home: Record<keyof typeof english, string> = {}
