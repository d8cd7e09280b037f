// What the page shows to the server: the secret of its session. It is kept in the storage of this origin, which pages of
// other ports can't read, as they could a cookie.
const PLACE = 'teamwright.session'

/** Sockets can't send a header; they offer the session among their protocols. */
const PROTOCOL = 'teamwright'

export const credential = {
  get: (): string => localStorage.getItem(PLACE) ?? '',
  set: (session: string): void => localStorage.setItem(PLACE, session),
  clear: (): void => localStorage.removeItem(PLACE),
  headers: (): Record<string, string> => (credential.get() ? { Authorization: `Bearer ${credential.get()}` } : {}),
  protocols: (): string[] => (credential.get() ? [PROTOCOL, `${PROTOCOL}.bearer.${credential.get()}`] : [PROTOCOL]),
}
