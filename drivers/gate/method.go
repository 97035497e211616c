package gate

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"headroom/e2e/framework/history"
)

// Methods whose answers the history has fields of.
const (
	nodeGetInfo   = "NodeGetInfo"
	getPluginInfo = "GetPluginInfo"
	createVolume  = "CreateVolume"
)

// method is what is known of a called method.
type method struct {
	full    string // "/csi.v1.Node/NodeGetInfo"
	service string // "csi.v1.Node"
	name    string // "NodeGetInfo"
	// desc is nil for a method that the linked CSI specification does not have.
	desc protoreflect.MethodDescriptor
}

func methodOf(full string) method {
	service, name, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	m := method{full: full, service: service, name: name}
	if strings.HasPrefix(service, "csi.v1.") {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
		if err == nil {
			m.desc, _ = d.(protoreflect.MethodDescriptor)
		}
	}
	return m
}

// unary reports whether the method is known to have one request and one answer.
func (m method) unary() bool {
	return m.desc != nil && !m.desc.IsStreamingClient() && !m.desc.IsStreamingServer()
}

// routed reports whether the call may be for a controller.
func (m method) routed() bool {
	return m.service == "csi.v1.Controller" || m.service == "csi.v1.Identity"
}

// request fills in the fields of a request. One that does not decode leaves them empty; what to say to that is the driver's to decide.
func (m method) request(f frame, body *history.CSICall) {
	if m.desc == nil {
		return
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.desc.Input().FullName())
	if err != nil {
		return
	}
	msg := t.New()
	if err := proto.Unmarshal(f.bytes, msg.Interface()); err != nil {
		return
	}
	body.Volume, body.NodeID = stringField(msg, "volume_id"), stringField(msg, "node_id")
	if m.name == createVolume {
		body.Name = stringField(msg, "name")
	}
}

func stringField(m protoreflect.Message, name protoreflect.Name) string {
	fd := m.Descriptor().Fields().ByName(name)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return m.Get(fd).String()
}

// answer fills in the fields of an OK answer.
func (m method) answer(f frame, body *history.CSICall) {
	if m.desc == nil {
		return
	}
	switch m.name {
	case nodeGetInfo:
		var info csi.NodeGetInfoResponse
		if proto.Unmarshal(f.bytes, &info) == nil {
			body.NodeID, body.MaxVolumes = info.NodeId, &info.MaxVolumesPerNode
		}
	case createVolume:
		var made csi.CreateVolumeResponse
		if proto.Unmarshal(f.bytes, &made) == nil {
			body.Volume = made.GetVolume().GetVolumeId()
		}
	case getPluginInfo:
		var info csi.GetPluginInfoResponse
		if proto.Unmarshal(f.bytes, &info) == nil {
			body.Version = info.VendorVersion
		}
	}
}
