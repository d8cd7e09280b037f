// Builds the page into the Python package. Nothing is loaded from another host, and nothing is inlined as a data URL
// of a script, so that the page works under a policy without `unsafe-inline`.
import { fileURLToPath } from 'node:url'
import vue from '@vitejs/plugin-vue'
import { defineConfig } from 'vitest/config'

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

export default defineConfig({
  root: path('.'),
  base: './',
  plugins: [vue({ features: { optionsAPI: false } })],
  resolve: { alias: { '@': path('./src') } },
  build: {
    outDir: path('../src/teamwright/server/page/static'),
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    target: 'es2022',
  },
  server: { proxy: { '/api': { target: 'http://127.0.0.1:8400', ws: true } } },
  test: { environment: 'happy-dom', pool: 'vmThreads', include: ['tests/**/*.test.ts'] },
})
