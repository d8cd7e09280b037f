import type { conversation as english } from '@/i18n/en/conversation'

export const conversation: Record<keyof typeof english, string> = {}
