/** What each view is given. */
export interface ViewProps {
  namespace: string;
  selected: string; // the id of a node; empty for none
  select: (id: string) => void;
  show: (id: string) => void; // in the flow
  process: string; // the id of one that has ended; empty for none
  open: (process: string) => void;
  path: (process: string) => void; // shows it in the flow
  run: string; // the id of a durable one; empty for none
  openRun: (run: string) => void;
  file: string; // that is edited; empty for the first
  line: number; // 0 for none
  edit: (file: string, line: number) => void;
}
