// The words of the page, in the language of the reader. What the engine says stays English.

const en = {
  flow: "Flow",
  nodes: "Nodes",
  processes: "Processes",
  process: "Process",
  trigger: "Started by",
  waitsIn: "Waits in",
  seenFor: "Seen for",
  inFlight: "{0} processes have not ended; {1} of them wait.",
  noProcesses: "No process waits. One that does is here while it waits: for an answer, a timer, a database, a person.",
  queues: "Queues",
  logs: "Logs",
  namespace: "Namespace",
  find: "Find a node",
  fit: "Fit",
  generation: "generation",
  running: "running",
  ready: "ready",
  notReady: "not ready",
  reloadFailed: "The last reload failed; what was served before goes on.",
  reload: "Reload",
  name: "Name",
  kind: "Kind",
  place: "Place",
  rate: "Packets/s",
  failing: "Errors/s",
  packets: "Packets",
  errors: "Errors",
  load: "Load",
  p50: "p50",
  p99: "p99",
  minute: "Last minute, packets/s",
  leadsTo: "Leads to",
  comesFrom: "Comes from",
  close: "Close",
  stale: "No answer for {0} s",
  connecting: "Connecting",
  noNodes: "No nodes in namespace {0}.",
  noNodesYet: "Nothing is served yet.",
  noNodesHint: "Nodes appear here when the program serves some: uniflow start FILE --console",
  noTraffic: "No packets yet. The first one lights its path.",
  noQueues: "No node of this namespace reports anything of itself. Sources, sinks, pools and caches do.",
  warnings: "Last warnings and errors",
  noLogs: "Nothing was logged yet.",
  noScope: "This needs more than looking. Open the address that the program has printed, or have it print another.",
  askCode: "Print another address",
  asked: "Look at the program's terminal.",
  token: "Token",
  needToken: "The program answers those who have its token.",
  enter: "Enter",
  level: "Level",
  skip: "Skip to content",
  graph: "Nodes and links. Arrow keys follow links, F fits the picture, + and - zoom.",
};

const ko: typeof en = {
  flow: "흐름",
  nodes: "노드",
  processes: "프로세스",
  process: "프로세스",
  trigger: "시작한 노드",
  waitsIn: "기다리는 노드",
  seenFor: "관찰 시간",
  inFlight: "끝나지 않은 프로세스 {0}개, 그중 {1}개가 기다립니다.",
  noProcesses: "기다리는 프로세스가 없습니다. 응답, 타이머, 데이터베이스, 사람을 기다리는 동안 여기에 나타납니다.",
  queues: "대기열",
  logs: "로그",
  namespace: "네임스페이스",
  find: "노드 찾기",
  fit: "맞춤",
  generation: "세대",
  running: "실행 중",
  ready: "준비됨",
  notReady: "준비되지 않음",
  reloadFailed: "마지막 다시 읽기가 실패했습니다. 이전 워크플로가 계속 실행됩니다.",
  reload: "다시 읽기",
  name: "이름",
  kind: "종류",
  place: "위치",
  rate: "패킷/초",
  failing: "오류/초",
  packets: "패킷",
  errors: "오류",
  load: "부하",
  p50: "p50",
  p99: "p99",
  minute: "최근 1분, 패킷/초",
  leadsTo: "다음",
  comesFrom: "이전",
  close: "닫기",
  stale: "{0}초 동안 응답 없음",
  connecting: "연결 중",
  noNodes: "네임스페이스 {0}에 노드가 없습니다.",
  noNodesYet: "아직 실행 중인 워크플로가 없습니다.",
  noNodesHint: "프로그램이 노드를 실행하면 여기에 나타납니다: uniflow start FILE --console",
  noTraffic: "아직 패킷이 없습니다. 첫 패킷이 지나가는 길이 표시됩니다.",
  noQueues: "이 네임스페이스에는 스스로 보고하는 노드가 없습니다. 소스, 싱크, 풀, 캐시가 보고합니다.",
  warnings: "최근 경고와 오류",
  noLogs: "아직 로그가 없습니다.",
  noScope: "보기 이상의 권한이 필요합니다. 프로그램이 출력한 주소를 열거나 새 주소를 출력하게 하세요.",
  askCode: "새 주소 출력",
  asked: "프로그램의 터미널을 확인하세요.",
  token: "토큰",
  needToken: "이 프로그램은 토큰이 있어야 응답합니다.",
  enter: "입력",
  level: "수준",
  skip: "본문으로 건너뛰기",
  graph: "노드와 링크. 화살표 키는 링크를 따라가고, F는 화면에 맞추며, +와 -는 확대와 축소입니다.",
};

const language = navigator.language.startsWith("ko") ? "ko" : "en";
document.documentElement.lang = language;

export function t(key: keyof typeof en, ...values: (string | number)[]): string {
  return (language === "ko" ? ko : en)[key].replace(/\{(\d)\}/g, (_, i) => String(values[Number(i)]));
}

/** A text of a document, in which characters that are not seen, or turn others round, are written as escapes. */
export const plain = (text: string) => text.replace(/[\p{C}\u2028\u2029]/gu, (c) => "\\u" + c.codePointAt(0)!.toString(16).padStart(4, "0"));

const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3, notation: "compact" });

/** A number of things, such as 1.9K. */
export const count = (n: number) => short.format(n);

/** A rate a second: small ones are told apart. */
export const rate = (n: number) => (n > 0 && n < 0.1 ? "<0.1" : n < 10 ? (Math.round(n * 10) / 10).toString() : short.format(n));

/** A time in seconds; an empty text for none. */
export function duration(s: number): string {
  if (s === 0) return "";
  const [n, unit] = s < 1e-3 ? [s * 1e6, "µs"] : s < 1 ? [s * 1e3, "ms"] : [s, "s"];
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`;
}
