import { conversation } from '@/i18n/en/conversation'
import { home } from '@/i18n/en/home'
import { shell } from '@/i18n/en/shell'

export const en = { ...shell, ...home, ...conversation }
