locals {
  functions = merge(
    {
      mobile = {
        description = "Delivers envelopes to phones by SNS mobile push."
        package     = var.mobile_package
        handler     = "tocsin.aws.delivery_mobile.handler"
        memory      = 512
        timeout     = 60
        parameter   = var.api_key_parameter
        subnets     = []
        variables = {
          DELIVERY_API_URL           = var.tocsin_url
          DELIVERY_API_KEY_PARAMETER = var.api_key_parameter
          DELIVERY_TYPES             = jsonencode(var.event_types)
        }
      }
    },
    local.has_web ? {
      web = {
        description = "Hands envelopes to Tocsin's gateway by its Redis stream."
        package     = var.web_package
        handler     = "tocsin.aws.delivery_web.handler"
        memory      = 256
        timeout     = 30
        parameter   = var.redis_url_parameter
        subnets     = var.subnet_ids
        variables   = { DELIVERY_REDIS_URL_PARAMETER = var.redis_url_parameter }
      }
    } : {}
  )
}

resource "aws_cloudwatch_log_group" "this" {
  for_each          = local.functions
  name              = "/aws/lambda/${var.name}-${each.key}"
  retention_in_days = var.log_retention_days
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "this" {
  for_each           = local.functions
  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.assume.json
}

data "aws_iam_policy_document" "function" {
  for_each = local.functions
  statement {
    sid       = "ReadQueue"
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    resources = [aws_sqs_queue.this[each.key].arn]
  }
  statement {
    sid       = "ReadParameter"
    actions   = ["ssm:GetParameter"]
    resources = ["${local.parameters}${each.value.parameter}"]
  }
  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this[each.key].arn}:*"]
  }
  dynamic "statement" {
    for_each = each.key == "mobile" ? [1] : []
    content {
      sid       = "PublishToEndpoints"
      actions   = ["sns:Publish"]
      resources = local.endpoints
    }
  }
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [1]
    content {
      sid       = "UseKey"
      actions   = ["kms:Decrypt"]
      resources = [var.kms_key_arn]
    }
  }
  # An interface has no name before it is made. The policy of AWS may write to every log group too.
  dynamic "statement" {
    for_each = length(each.value.subnets) > 0 ? [1] : []
    content {
      sid = "JoinNetwork"
      actions = [
        "ec2:CreateNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:DeleteNetworkInterface",
        "ec2:AssignPrivateIpAddresses",
        "ec2:UnassignPrivateIpAddresses",
      ]
      resources = ["*"]
    }
  }
}

resource "aws_iam_role_policy" "this" {
  for_each = local.functions
  name     = "deliver"
  role     = aws_iam_role.this[each.key].id
  policy   = data.aws_iam_policy_document.function[each.key].json
}

resource "aws_lambda_function" "this" {
  for_each         = local.functions
  function_name    = "${var.name}-${each.key}"
  description      = each.value.description
  filename         = each.value.package
  source_code_hash = filebase64sha256(each.value.package)
  handler          = each.value.handler
  runtime          = var.runtime
  architectures    = [var.architecture]
  role             = aws_iam_role.this[each.key].arn
  memory_size      = each.value.memory
  timeout          = each.value.timeout
  environment {
    variables = each.value.variables
  }
  dynamic "vpc_config" {
    for_each = length(each.value.subnets) > 0 ? [1] : []
    content {
      subnet_ids         = each.value.subnets
      security_group_ids = var.security_group_ids
    }
  }
  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.this]
}

resource "aws_lambda_event_source_mapping" "this" {
  for_each                = local.functions
  function_name           = aws_lambda_function.this[each.key].arn
  event_source_arn        = aws_sqs_queue.this[each.key].arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  scaling_config {
    maximum_concurrency = var.max_concurrency
  }
}
