// Dark or light: as the system has it, unless the reader chose.
import { computed, ref, watchEffect } from 'vue'
import { recall, remember } from '@/state/preferences'

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const chosen = ref<Theme>(recall('theme', THEMES) ?? 'system')
const query = matchMedia('(prefers-color-scheme: dark)')
const systemIsDark = ref(query.matches)
query.addEventListener('change', (event) => (systemIsDark.value = event.matches))

export const theme = computed({
  get: () => chosen.value,
  set: (value: Theme) => {
    chosen.value = value
    remember('theme', value)
  },
})

export const isDark = computed(() => chosen.value === 'dark' || (chosen.value === 'system' && systemIsDark.value))

watchEffect(() => document.documentElement.setAttribute('data-theme', isDark.value ? 'dark' : 'light'))
