import { conversation } from '@/i18n/en/conversation'
import { home } from '@/i18n/en/home'
import { lab } from '@/i18n/en/lab'
import { money } from '@/i18n/en/money'
import { operations } from '@/i18n/en/operations'
import { plan } from '@/i18n/en/plan'
import { shell } from '@/i18n/en/shell'
import { steer } from '@/i18n/en/steer'
import { travel } from '@/i18n/en/travel'

export const en = { ...shell, ...home, ...conversation, ...plan, ...money, ...steer, ...travel, ...lab, ...operations }
