// Questions of the server in the reader's language.
import { afterEach, expect, test } from 'vitest'
import { chooseLanguage } from '@/i18n'
import { questionText } from '@/i18n/questions'

afterEach(() => chooseLanguage('en'))

test.each([
  ["May this run of 'shop' begin?", "可以开始 'shop' 的这次运行吗？"],
  ["May 'clerk' begin with this task?", "'clerk' 可以开始此任务吗？"],
  ["May this reply of 'clerk' stand?", "可以采用 'clerk' 的这个答复吗？"],
  ["May 'clerk' call the tool 'refund' with these arguments?", "'clerk' 可以用这些参数调用工具 'refund' 吗？"],
  ['May the team work by this plan?\n\n- reading (reader): Read it.', '团队可以按此计划工作吗？\n\n- reading (reader): Read it.'],
  ['Shall we open on Monday?', 'Shall we open on Monday?'],
])('%s', async (text, said) => {
  expect(questionText(text)).toBe(text)
  await chooseLanguage('zh')
  expect(questionText(text)).toBe(said)
})
