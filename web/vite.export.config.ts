// Builds the page of an exported run: one script and one style sheet, which `runs export --html` puts into the file.
import { fileURLToPath } from 'node:url'
import vue from '@vitejs/plugin-vue'
import { defineConfig } from 'vite'

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

export default defineConfig({
  root: path('.'),
  plugins: [vue({ features: { optionsAPI: false } })],
  publicDir: false,
  resolve: { alias: { '@': path('./src') } },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: path('../src/teamwright/server/page/static/export'),
    emptyOutDir: true,
    cssCodeSplit: false,
    target: 'es2022',
    lib: { entry: path('./src/export.ts'), formats: ['iife'], name: 'TeamwrightRun', fileName: () => 'run.js', cssFileName: 'run' },
    rolldownOptions: { output: { codeSplitting: false } },
  },
})
