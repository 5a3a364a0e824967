package brokers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// A Kafka is a cluster of one broker, at the same address whenever it runs.
type Kafka struct {
	Addr string
	SASL string         // of an Apache Kafka: the address for the user ann, with the password r1ght
	Fake *kfake.Cluster // of a cluster in this process, while it runs

	named atomic.Pointer[net.TCPAddr] // the address that clients get; nil for Addr
	proxy *faultproxy.Proxy           // of an Apache Kafka
	user  []kgo.Opt                   // of clients of tests
	start func(tb testing.TB)
	stop  func()
}

// Advertise lets a fake cluster in this process name another address to its clients, such
// as the address of a proxy. Clients of [Kafka.Client] go to the cluster all the same.
func (k *Kafka) Advertise(addr string) {
	if named, err := net.ResolveTCPAddr("tcp", addr); err == nil {
		k.named.Store(named)
	}
}

// Proxy returns a proxy that clients of its address stay behind. Clients of [Kafka.Client] go to
// the cluster itself.
func (k *Kafka) Proxy(tb testing.TB) *faultproxy.Proxy {
	tb.Helper()
	if k.proxy != nil {
		return k.proxy
	}
	proxy := faultproxy.New(tb, k.Addr, nil)
	k.Advertise(proxy.Addr)
	return proxy
}

// A namedListener has the address that a cluster names.
type namedListener struct {
	net.Listener
	of *Kafka
}

func (l namedListener) Addr() net.Addr {
	if named := l.of.named.Load(); named != nil {
		return named
	}
	return l.Listener.Addr()
}

// Login lets the clients of tests log in with a password.
func (k *Kafka) Login(user, password string) {
	k.user = []kgo.Opt{kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())}
}

// FakeKafka starts a fake cluster in this process. Topics and positions survive Stop.
func FakeKafka(tb testing.TB, opts ...kfake.Opt) *Kafka {
	tb.Helper()
	k := &Kafka{Addr: freeport.Addr(tb)}
	dir, port := tb.TempDir(), portOf(k.Addr)
	k.start = func(tb testing.TB) {
		tb.Helper()
		cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return namedListener{l, k}, err
		}),
			kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"})}, opts...)...)
		if err != nil {
			tb.Fatal(err)
		}
		k.Fake = cluster
	}
	k.stop = func() {
		if k.Fake != nil {
			k.Fake.Close()
			k.Fake = nil
		}
	}
	return k.run(tb)
}

// KafkaProcess starts a fake cluster in a process of its own, with topics of a number of
// partitions. It is in memory: Stop loses what it has.
func KafkaProcess(tb testing.TB, partitions int, topics ...string) *Kafka {
	tb.Helper()
	k := &Kafka{Addr: freeport.Addr(tb)}
	var p *Process
	k.start = func(tb testing.TB) {
		tb.Helper()
		p = Start(tb, append([]string{"kafka", "-port", strconv.Itoa(portOf(k.Addr)), "-partitions", strconv.Itoa(partitions)}, topics...)...)
	}
	k.stop = func() { p.Kill() }
	return k.run(tb)
}

//go:embed apache/pom.xml
var apachePOM []byte

// ApacheKafka starts an Apache Kafka, which Maven fetches into a folder of the user's cache
// the first time. The test fails where there is no Java or no Maven.
func ApacheKafka(tb testing.TB) *Kafka {
	tb.Helper()
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Fatalf("the tests on Apache Kafka need %s (Debian: openjdk-17-jre-headless, maven): %v", program, err)
		}
	}
	libs, err := apacheLibs()
	if err != nil {
		tb.Fatal(err)
	}
	k, behind := &Kafka{Addr: freeport.Addr(tb), SASL: freeport.Addr(tb)}, freeport.Addr(tb)
	k.proxy = faultproxy.New(tb, behind, nil) // a listener has one address for its clients, from the start
	dir := tb.TempDir()
	properties := filepath.Join(dir, "server.properties")
	controller := freeport.Addr(tb)
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,PROXY://%[5]s,SASL_PLAINTEXT://%[4]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s,PROXY://%[6]s,SASL_PLAINTEXT://%[4]s
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="r1ght";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
log.dirs=%[3]s/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
`, k.Addr, controller, dir, k.SASL, behind, k.proxy.Addr)
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	java := func(args ...string) *exec.Cmd {
		return exec.Command("java", append([]string{"-Xmx512m", "-cp", filepath.Join(libs, "*")}, args...)...)
	}
	if out, err := java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", properties,
		"-S", "SCRAM-SHA-256=[name=ann,password=r1ght]", "-S", "SCRAM-SHA-512=[name=ann,password=r1ght]").CombinedOutput(); err != nil {
		tb.Fatalf("formatting the storage of Apache Kafka: %v\n%s", err, out)
	}
	var cmd *exec.Cmd
	k.start = func(tb testing.TB) {
		tb.Helper()
		cmd = java("kafka.Kafka", properties)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			tb.Fatal(err)
		}
	}
	k.stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return k.run(tb)
}

// apacheLibs returns the folder of the jars. A folder that Maven has not filled to its
// end is not used.
func apacheLibs() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(apachePOM)
	dir := filepath.Join(cache, "uniflow-brokers", "kafka-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "maven")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), apachePOM, 0o600); err != nil {
		return "", err
	}
	mvn := exec.Command("mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib")
	mvn.Dir = work
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetching Apache Kafka with Maven: %w\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(work, "lib"), dir); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, nil
}

func (k *Kafka) run(tb testing.TB) *Kafka {
	tb.Helper()
	k.Start(tb)
	tb.Cleanup(k.stop)
	return k
}

// Start starts the cluster again after Stop, and returns when it answers.
func (k *Kafka) Start(tb testing.TB) {
	tb.Helper()
	k.start(tb)
	ctx, end := context.WithTimeout(context.Background(), 30*time.Second)
	defer end()
	for {
		connection, err := net.DialTimeout("tcp", k.Addr, time.Second)
		if err == nil {
			connection.Close()
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			tb.Fatalf("Kafka at %s does not answer: %v", k.Addr, err)
		}
	}
}

// Stop ends the cluster as a crash does.
func (k *Kafka) Stop() { k.stop() }

// Client returns a client of the cluster, closed at the end of the test.
func (k *Kafka) Client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client := k.client(tb, opts...)
	tb.Cleanup(client.CloseAllowingRebalance)
	return client
}

// client returns one that the caller closes: until the end of the test, it would take memory.
func (k *Kafka) client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	all := slices.Concat([]kgo.Opt{kgo.SeedBrokers(k.Addr), kgo.DisableClientMetrics(), kgo.MetadataMinAge(100 * time.Millisecond)}, k.user, opts)
	if k.named.Load() != nil {
		all = append(all, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, k.Addr)
		}))
	}
	client, err := kgo.NewClient(all...)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// Create makes a topic.
func (k *Kafka) Create(tb testing.TB, topic string, partitions int) {
	tb.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), k.Client(tb))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("making the topic %s: %v", topic, err)
	}
}

// Delete removes a topic.
func (k *Kafka) Delete(tb testing.TB, topic string) {
	tb.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics, req.TopicNames = append(req.Topics, t), []string{topic}
	resp, err := req.RequestWith(tb.Context(), k.Client(tb))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("deleting the topic %s: %v", topic, err)
	}
}

// State returns the state of a group, such as Stable, or Empty if it has no members.
func (k *Kafka) State(tb testing.TB, group string) string {
	tb.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	client := k.client(tb)
	defer client.Close()
	resp, err := req.RequestWith(tb.Context(), client)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.Groups[0].State
}

// Committed returns the position of a group in a partition, -1 if there is none.
func (k *Kafka) Committed(tb testing.TB, group, topic string, partition int32) int64 {
	tb.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, t)
	g := kmsg.NewOffsetFetchRequestGroup()
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.Partitions = topic, []int32{partition}
	g.Group, g.Topics = group, append(g.Topics, gt)
	req.Groups = append(req.Groups, g)
	client := k.client(tb)
	defer client.Close()
	resp, err := req.RequestWith(tb.Context(), client)
	for began := time.Now(); kerr.IsRetriable(err) && time.Since(began) < 30*time.Second; { // a new cluster has no coordinator yet; the client waits between
		resp, err = req.RequestWith(tb.Context(), client)
	}
	if err != nil {
		tb.Fatal(err)
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				return p.Offset
			}
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			return p.Offset
		}
	}
	return -1
}

func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Full reports whether tests run at full length, and on Apache Kafka: under the target
// test-faults, which sets STREAM_FAULTS=full.
func Full() bool { return os.Getenv("STREAM_FAULTS") == "full" }
