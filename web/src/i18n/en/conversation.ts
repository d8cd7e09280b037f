export const conversation = {}
