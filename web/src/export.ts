// The page of an exported run: its page events and prompts stand in the file, and there is no server.
import { createPinia } from 'pinia'
import { createApp } from 'vue'
import ExportedRun from '@/ExportedRun.vue'
import { languageLoaded } from '@/i18n'
import '@/styles/tokens.css'
import '@/styles/page.css'

void languageLoaded.then(() => createApp(ExportedRun).use(createPinia()).mount('#app'))
