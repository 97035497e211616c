package steady

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// vendorVersion is what GetPluginInfo tells.
const vendorVersion = "v1"

// GetPluginInfo implements csi.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.opts.DriverName, VendorVersion: vendorVersion}, nil
}

// GetPluginCapabilities implements csi.IdentityServer. It speaks for the plugin as a whole, so every process says the same.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := &csi.GetPluginCapabilitiesResponse{}
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.opts.Zone != "" {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	for _, s := range services {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: s}},
		})
	}
	return out, nil
}

// Probe implements csi.IdentityServer. A driver without its backend is still ready: its policy exists for that case.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}
