import { createPinia } from 'pinia'
import { createApp } from 'vue'
import App from '@/App.vue'
import { languageLoaded } from '@/i18n'
import '@/styles/tokens.css'
import '@/styles/page.css'

void languageLoaded.then(() => createApp(App).use(createPinia()).mount('#app'))
