/* SPDX-License-Identifier: Apache-2.0
 * A libfabric that calls what no library has that it was linked with: rdma-core is another one than it was
 * built for (field report ENV-04). Loading it fails, all functions being bound at once. */
int efadv_query_mr(void);

int fi_getinfo(void)
{
    return efadv_query_mr();
}
