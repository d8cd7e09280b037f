import { conversation } from '@/i18n/zh/conversation'
import { home } from '@/i18n/zh/home'
import { lab } from '@/i18n/zh/lab'
import { money } from '@/i18n/zh/money'
import { operations } from '@/i18n/zh/operations'
import { plan } from '@/i18n/zh/plan'
import { shell } from '@/i18n/zh/shell'
import { steer } from '@/i18n/zh/steer'
import { travel } from '@/i18n/zh/travel'

export const zh = { ...shell, ...home, ...conversation, ...plan, ...money, ...steer, ...travel, ...lab, ...operations }
