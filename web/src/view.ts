/** What each view is given. */
export interface ViewProps {
  namespace: string;
  selected: string; // the id of a node; empty for none
  select: (id: string) => void;
  show: (id: string) => void; // in the flow
}
