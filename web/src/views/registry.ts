// The views of a run, in the order of the tabs. A view is a component with one prop, `run`; it loads when it is opened.
import type { Component } from 'vue'
import { lazy } from '@/components/lazy'
import type { MessageKey } from '@/i18n'

export interface RunView {
  id: string
  title: MessageKey
  /** The key that opens it. */
  key: string
  component: Component
  /** It asks the server, so that an exported run has no such view. */
  needsServer?: true
}

export const RUN_VIEWS: RunView[] = [
  {
    id: 'conversation',
    title: 'view.conversation',
    key: '1',
    component: lazy(() => import('@/views/conversation/ConversationView.vue')),
  },
  {
    id: 'plan',
    title: 'view.plan',
    key: '2',
    component: lazy(() => import('@/views/plan/PlanView.vue')),
  },
  {
    id: 'money',
    title: 'view.money',
    key: '3',
    component: lazy(() => import('@/views/money/MoneyView.vue')),
  },
  {
    id: 'travel',
    title: 'view.travel',
    key: '4',
    component: lazy(() => import('@/views/travel/TravelView.vue')),
  },
  {
    id: 'lab',
    title: 'view.lab',
    key: '5',
    component: lazy(() => import('@/views/lab/LabView.vue')),
    needsServer: true,
  },
]
