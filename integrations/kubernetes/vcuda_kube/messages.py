# SPDX-License-Identifier: Apache-2.0
"""The kubelet's gRPC interfaces as tables of field numbers and types, so that no protobuf compiler is needed.

The numbers are those of the .proto files of github.com/kubernetes/kubelet (Apache-2.0), commit
63b3249724f7d89a8aa48f9acb3811f193c9aa68; a comment names the file. Fields that are not used here are left out; protobuf skips
them. `*` before a type: repeated, or a stream of answers. `{}`: a map from strings.
"""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": FIELD.TYPE_STRING, "bool": FIELD.TYPE_BOOL, "int32": FIELD.TYPE_INT32}


class Package:
    """The messages of a table as attributes, and its services."""

    def __init__(self, name, table):
        self.name = name
        self.services = {}
        file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
        for line in filter(None, table.splitlines()):
            head, _, body = line.partition(":")
            if "." in head:
                service, method = head.split(".")
                self.services.setdefault(service, {})[method] = [part.strip() for part in body.split("->")]
            else:
                self._add_message(file.message_type.add(name=head), body)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        for message in file.message_type:
            setattr(self, message.name, message_class(pool.FindMessageTypeByName(f"{name}.{message.name}"), pool))

    def _add_message(self, message, body):
        for text in filter(None, body.split(",")):
            number, kind, name = text.split()
            field = message.field.add(name=name, number=int(number), label=FIELD.LABEL_OPTIONAL)
            if kind.startswith("{}"):
                entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_STRING)
                self._set_type(entry.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL), kind[2:])
                kind = f"*{message.name}.{entry.name}"
            if kind.startswith("*"):
                field.label = FIELD.LABEL_REPEATED
            self._set_type(field, kind.lstrip("*"))

    def _set_type(self, field, kind):
        if kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{self.name}.{kind}"

    def handler(self, service, implementation):
        """A handler for grpc.Server.add_generic_rpc_handlers(). `implementation` has a method for each of the service's."""
        handlers = {}
        for method, (request, answer) in self.services[service].items():
            make = grpc.unary_stream_rpc_method_handler if answer.startswith("*") else grpc.unary_unary_rpc_method_handler
            handlers[method] = make(getattr(implementation, method), request_deserializer=getattr(self, request).FromString,
                                    response_serializer=getattr(self, answer.lstrip("*")).SerializeToString)
        return grpc.method_handlers_generic_handler(f"{self.name}.{service}", handlers)

    def call(self, channel, service, method):
        """A function that calls the peer's method."""
        request, answer = self.services[service][method]
        make = channel.unary_stream if answer.startswith("*") else channel.unary_unary
        return make(f"/{self.name}.{service}/{method}", request_serializer=getattr(self, request).SerializeToString,
                    response_deserializer=getattr(self, answer.lstrip("*")).FromString)


def message_class(descriptor, pool):
    """Protobuf 4.22 has a function for this, in the place of a class."""
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


# pkg/apis/deviceplugin/v1beta1/api.proto
DEVICE_PLUGIN = Package("v1beta1", """
Empty
DevicePluginOptions: 1 bool pre_start_required, 2 bool get_preferred_allocation_available
RegisterRequest: 1 string version, 2 string endpoint, 3 string resource_name, 4 DevicePluginOptions options
ListAndWatchResponse: 1 *Device devices
Device: 1 string ID, 2 string health
PreStartContainerRequest: 1 *string devices_ids
PreStartContainerResponse
PreferredAllocationRequest: 1 *ContainerPreferredAllocationRequest container_requests
ContainerPreferredAllocationRequest: 1 *string available_deviceIDs, 2 *string must_include_deviceIDs, 3 int32 allocation_size
PreferredAllocationResponse: 1 *ContainerPreferredAllocationResponse container_responses
ContainerPreferredAllocationResponse: 1 *string deviceIDs
AllocateRequest: 1 *ContainerAllocateRequest container_requests
ContainerAllocateRequest: 1 *string devices_ids
AllocateResponse: 1 *ContainerAllocateResponse container_responses
ContainerAllocateResponse: 5 *CDIDevice cdi_devices
CDIDevice: 1 string name
Registration.Register: RegisterRequest -> Empty
DevicePlugin.GetDevicePluginOptions: Empty -> DevicePluginOptions
DevicePlugin.ListAndWatch: Empty -> *ListAndWatchResponse
DevicePlugin.GetPreferredAllocation: PreferredAllocationRequest -> PreferredAllocationResponse
DevicePlugin.Allocate: AllocateRequest -> AllocateResponse
DevicePlugin.PreStartContainer: PreStartContainerRequest -> PreStartContainerResponse
""")

# pkg/apis/podresources/v1/api.proto
POD_RESOURCES = Package("v1", """
ListPodResourcesRequest
ListPodResourcesResponse: 1 *PodResources pod_resources
PodResources: 1 string name, 2 string namespace, 3 *ContainerResources containers
ContainerResources: 1 string name, 2 *ContainerDevices devices
ContainerDevices: 1 string resource_name, 2 *string device_ids
PodResourcesLister.List: ListPodResourcesRequest -> ListPodResourcesResponse
""")

# pkg/apis/pluginregistration/v1/api.proto
PLUGIN_REGISTRATION = Package("pluginregistration", """
PluginInfo: 1 string type, 2 string name, 3 string endpoint, 4 *string supported_versions
RegistrationStatus: 1 bool plugin_registered, 2 string error
RegistrationStatusResponse
InfoRequest
Registration.GetInfo: InfoRequest -> PluginInfo
Registration.NotifyRegistrationStatus: RegistrationStatus -> RegistrationStatusResponse
""")

# pkg/apis/dra/v1/api.proto
DRA = Package("k8s.io.kubelet.pkg.apis.dra.v1", """
NodePrepareResourcesRequest: 1 *Claim claims
NodePrepareResourcesResponse: 1 {}NodePrepareResourceResponse claims
NodePrepareResourceResponse: 1 *Device devices, 2 string error
Device: 1 *string request_names, 2 string pool_name, 3 string device_name, 4 *string cdi_device_ids, 5 string share_id
NodeUnprepareResourcesRequest: 1 *Claim claims
NodeUnprepareResourcesResponse: 1 {}NodeUnprepareResourceResponse claims
NodeUnprepareResourceResponse: 1 string error
Claim: 1 string namespace, 2 string uid, 3 string name
DRAPlugin.NodePrepareResources: NodePrepareResourcesRequest -> NodePrepareResourcesResponse
DRAPlugin.NodeUnprepareResources: NodeUnprepareResourcesRequest -> NodeUnprepareResourcesResponse
""")
