// What the reader has begun to write, kept while another view or another part of a long list is shown.
import { computed, reactive, type WritableComputedRef } from 'vue'

const kept = reactive(new Map<string, string>())

/** A text that outlives what shows it; `key` says whose it is. One that is as it began is not kept. */
export function useDraft<T extends string = string>(key: string, initial: NoInfer<T>): WritableComputedRef<T> {
  return computed({
    get: () => (kept.get(key) as T | undefined) ?? initial,
    set: (text) => (text === initial ? kept.delete(key) : kept.set(key, text)),
  })
}
