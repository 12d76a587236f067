/* fs/transport.c - see transport.h. */
#include "transport.h"

#include "store/remote.h"

const char *pt_fs_transport_name(const struct pt_fs *fs)
{
	struct pt_remote_rdma_status rdma;
	struct pt_net_status net;

	if (pt_remote_rdma_info(&fs->store->data, &rdma) && rdma.connected)
		return "rdma";
	return pt_remote_status(&fs->store->data, &net) ? net.transport : "local";
}

bool pt_fs_transport_is_remote(const struct pt_fs *fs)
{
	struct pt_net_status net;

	return pt_remote_status(&fs->store->data, &net);
}

bool pt_fs_transport_is_down(const struct pt_fs *fs)
{
	struct pt_net_status net;

	return pt_remote_status(&fs->store->data, &net) && !net.connected;
}

void pt_fs_transport_status(const struct pt_fs *fs, json_t *root)
{
	struct pt_remote_rdma_status rdma;
	struct pt_net_status net;
	json_t *remote;

	if (!root || !pt_remote_status(&fs->store->data, &net))
		return;
	remote = json_pack("{s:s, s:b, s:s, s:I}", "peer", net.peer, "connected", net.connected, "control", net.transport, "connections",
			   (json_int_t)net.connects);
	if (remote && pt_remote_rdma_info(&fs->store->data, &rdma))
		json_object_set_new(remote, "rdma", json_pack("{s:b, s:s, s:I, s:I, s:I, s:{s:s, s:I, s:I, s:I}}", "connected", rdma.connected, "device", rdma.device, "port",
							      (json_int_t)rdma.port, "gid", (json_int_t)rdma.gid,
							      "connections", (json_int_t)rdma.connects, "prices", "from", rdma.costs_from ? rdma.costs_from : "usual",
							      "request_ns", (json_int_t)rdma.request_ns, "byte_ps", (json_int_t)rdma.byte_ps, "copy_ps",
							      (json_int_t)rdma.copy_ps));
	json_object_set_new(root, "remote", remote);
}

void pt_fs_transport_text(const struct pt_fs *fs, void (*metric)(struct pt_buf *out, const char *name, const char *type, const char *help, uint64_t value),
			  struct pt_buf *out)
{
	struct pt_remote_rdma_status rdma;
	struct pt_remote_tcp_status tcp;
	struct pt_net_status net;

	if (!pt_remote_status(&fs->store->data, &net) || !pt_remote_tcp_info(&fs->store->data, &tcp))
		return;
	metric(out, "net_connected", "gauge", "Whether the daemon is reached now.", net.connected);
	metric(out, "net_connections_total", "counter", "Connections made to a daemon.", net.connects);
	metric(out, "net_calls_total", "counter", "Requests sent to it.", net.calls);
	metric(out, "net_watches_total", "counter", "Requests that the daemon answers when somebody has committed: one after the other, which nobody waits for.", net.asides);
	metric(out, "net_received_bytes_total", "counter", "Bytes that came over its TCP connections, messages included.", net.bytes_in);
	metric(out, "net_sent_bytes_total", "counter", "Bytes that went over them.", net.bytes_out);
	metric(out, "tcp_reads_total", "counter", "Reads of objects that went by TCP.", tcp.reads);
	metric(out, "tcp_read_bytes_total", "counter", "Bytes of objects read by TCP.", tcp.bytes_read);
	if (!pt_remote_rdma_info(&fs->store->data, &rdma))
		return;
	metric(out, "rdma_connected", "gauge", "Whether there is an RDMA connection now.", rdma.connected);
	metric(out, "rdma_connections_total", "counter", "RDMA connections made.", rdma.connects);
	metric(out, "rdma_reads_total", "counter", "Reads of objects that went by RDMA.", rdma.reads);
	metric(out, "rdma_fallbacks_total", "counter", "Reads that were to go by RDMA and went by TCP.", rdma.fallbacks);
	metric(out, "rdma_work_requests_total", "counter", "RDMA READs posted.", rdma.requests);
	metric(out, "rdma_read_bytes_total", "counter", "Bytes that they moved.", rdma.bytes_read);
	metric(out, "rdma_read_bytes_asked_total", "counter", "Bytes of objects that were asked for by RDMA.", rdma.bytes_asked);
	metric(out, "rdma_writes_total", "counter", "Pieces of uploads that went by RDMA.", rdma.writes);
	metric(out, "rdma_written_bytes_total", "counter", "Bytes of them.", rdma.bytes_written);
	metric(out, "rdma_write_fallbacks_total", "counter", "Pieces that were to go by RDMA and went by TCP.", rdma.write_fallbacks);
	metric(out, "rdma_bounced_bytes_total", "counter", "Bytes moved by way of a bounce buffer.", rdma.bounced_bytes);
	metric(out, "rdma_price_request_nanoseconds", "gauge", "What a work request is taken to cost.", rdma.request_ns);
	metric(out, "rdma_price_byte_picoseconds", "gauge", "What moving a byte is taken to cost.", rdma.byte_ps);
	metric(out, "rdma_price_copy_picoseconds", "gauge", "What copying a byte is taken to cost.", rdma.copy_ps);
}
