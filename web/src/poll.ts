import { useEffect } from "preact/hooks";

/** Asks at intervals, in ms, while a view is open and seen, until it returns false. */
export function usePoll(every: number | (() => number), ask: () => Promise<boolean>, ...on: unknown[]): void {
  useEffect(() => {
    let timer = 0;
    let open = true;
    const next = async () => {
      let more = true;
      if (!document.hidden) more = await ask().catch(() => true); // the bar says that the program is gone
      if (open && more) timer = setTimeout(next, typeof every === "number" ? every : every());
    };
    void next();
    return () => {
      open = false;
      clearTimeout(timer);
    };
  }, on);
}
