import { conversation } from '@/i18n/en/conversation'
import { home } from '@/i18n/en/home'
import { plan } from '@/i18n/en/plan'
import { shell } from '@/i18n/en/shell'
import { steer } from '@/i18n/en/steer'

export const en = { ...shell, ...home, ...conversation, ...plan, ...steer }
